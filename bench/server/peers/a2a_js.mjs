// The server of @a2a-js/sdk: Express, its request handler and its store in memory. Argument: the port.
//
// Run in the folder where the peer is installed. The executor does what a2a_claude's scripted one does, in the fewest
// events that the handler allows.
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

const port = Number(process.argv[2]);
const text = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });
const bare = { metadata: undefined, extensions: [] };

class Scripted {
  async execute({ taskId, contextId, userMessage }, bus) {
    const chunks = userMessage.metadata?.script?.chunks ?? 0;
    const ids = { taskId, contextId, metadata: undefined };
    const timestamp = new Date().toISOString();
    const said = {
      ...bare, taskId, contextId, messageId: randomUUID(), role: Role.ROLE_AGENT, parts: userMessage.parts, referenceTaskIds: [],
    };
    const completed = { state: TaskState.TASK_STATE_COMPLETED, message: said, timestamp };
    const status = chunks ? { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp } : completed;
    bus.publish(AgentEvent.task({ id: taskId, contextId, status, artifacts: [], history: [userMessage], metadata: undefined }));
    const artifactId = randomUUID();
    for (let number = 0; number < chunks; number++) {
      const artifact = { ...bare, artifactId, name: 'response', description: '', parts: [text(`${number} `.padEnd(16, '·'))] };
      bus.publish(AgentEvent.artifactUpdate({ ...ids, artifact, append: number > 0, lastChunk: number === chunks - 1 }));
    }
    if (chunks) bus.publish(AgentEvent.statusUpdate({ ...ids, status: completed }));
    bus.finished();
  }

  async cancelTask() {}
}

const card = {
  name: 'Scripted', description: 'Answers at once.', version: '1', provider: undefined,
  supportedInterfaces: [{ url: `http://127.0.0.1:${port}/a2a/jsonrpc`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' }],
  capabilities: { streaming: true, extensions: [] }, securitySchemes: {}, securityRequirements: [],
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], signatures: [],
  skills: [{ id: 'echo', name: 'Echo', description: 'Echoes.', tags: ['echo'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
};
const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Scripted());
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
app.use('/a2a/jsonrpc', jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, '127.0.0.1');
