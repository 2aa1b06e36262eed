// An agent on @a2a-js/sdk 1.x that does what the first word of a message says; see ../test_remotes.py. Argument: the port.
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

const port = Number(process.argv[2]);
const text = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });
const bare = { metadata: undefined, extensions: [] };

class Obedient {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const said = userMessage.parts.map((part) => (part.content?.$case === 'text' ? part.content.value : '')).join('');
    const ids = { taskId, contextId, metadata: undefined };
    const says = (words) => ({
      ...bare, taskId, contextId, messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [text(words)], referenceTaskIds: [],
    });
    const status = (state, words) => ({
      state: TaskState[`TASK_STATE_${state}`], message: words ? says(words) : undefined, timestamp: new Date().toISOString(),
    });
    const become = (state, words) => bus.publish(AgentEvent.statusUpdate({ ...ids, status: status(state, words) }));
    const begun = { id: taskId, contextId, status: status('SUBMITTED'), artifacts: [], history: [userMessage], metadata: undefined };
    bus.publish(AgentEvent.task(task ?? begun));
    if (task) become('COMPLETED', `you said ${said}`);
    else if (said.startsWith('ask')) become('INPUT_REQUIRED', 'Which one?');
    else if (said.startsWith('hang')) {
      become('WORKING', 'thinking');
      return;
    } else {
      const artifact = { ...bare, artifactId: 'a', name: 'response', description: '', parts: [text(`did ${said}`)] };
      bus.publish(AgentEvent.artifactUpdate({ ...ids, artifact, append: false, lastChunk: true }));
      become('COMPLETED');
    }
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    const status = { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: '', metadata: undefined, status }));
    bus.finished();
  }
}

const url = `http://127.0.0.1:${port}/a2a/jsonrpc`;
const card = {
  name: 'Obedient', description: 'Does as told.', version: '1', provider: undefined,
  supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' }],
  capabilities: { streaming: true, extensions: [] }, securitySchemes: {}, securityRequirements: [],
  defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], signatures: [],
  skills: [{ id: 'work', name: 'Work', description: 'Works.', tags: ['x'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
};
const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Obedient());
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
app.use('/a2a/jsonrpc', jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, '127.0.0.1');
