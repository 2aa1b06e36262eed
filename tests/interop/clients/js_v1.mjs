// A client on @a2a-js/sdk 1.x, driven by lines of JSON on stdin; see ../drivers.py.
import { answer, collect, fetchImpl, require, settings } from './lines.mjs';

const a2a = require('@a2a-js/sdk');
const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  require('@a2a-js/sdk/client');

const options = { fetchImpl, legacyCompat: { enabled: settings.version !== '1.0' } };
const resolver = new DefaultAgentCardResolver(options);
const event = (each) => a2a.StreamResponse.toJSON(each);
let client;

async function connect() {
  const card = await resolver.resolve(settings.url);
  const spoken = card.supportedInterfaces.filter((each) => each.protocolVersion === settings.version);
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
    preferredTransports: [settings.binding],
    cardResolver: resolver,
  });
  client = await factory.createFromAgentCard({ ...card, supportedInterfaces: spoken });
  if (client.transport.protocolName !== settings.binding) throw new Error(`no ${settings.binding}`);
  return a2a.AgentCard.toJSON(card);
}

const sent = (found) => ('status' in found ? { task: a2a.Task.toJSON(found) } : { message: a2a.Message.toJSON(found) });
const cancel = (request) => client.cancelTask(a2a.CancelTaskRequest.fromJSON(request));

const operations = {
  card: connect,
  extended_card: async () => a2a.AgentCard.toJSON(await client.getAgentCard()),
  send: async (request) => sent(await client.sendMessage(a2a.SendMessageRequest.fromJSON(request))),
  stream: (request) => collect(client.sendMessageStream(a2a.SendMessageRequest.fromJSON(request)), event),
  get: async (request) => a2a.Task.toJSON(await client.getTask(a2a.GetTaskRequest.fromJSON(request))),
  list: async (request) => a2a.ListTasksResponse.toJSON(await client.listTasks(a2a.ListTasksRequest.fromJSON(request))),
  cancel: async (request) => a2a.Task.toJSON(await cancel(request)),
  subscribe: (request) =>
    collect(client.resubscribeTask(a2a.SubscribeToTaskRequest.fromJSON(request)), event, () => cancel(request)),
  push_set: async (request) =>
    a2a.TaskPushNotificationConfig.toJSON(
      await client.createTaskPushNotificationConfig(a2a.TaskPushNotificationConfig.fromJSON(request)),
    ),
  push_get: async (request) =>
    a2a.TaskPushNotificationConfig.toJSON(
      await client.getTaskPushNotificationConfig(a2a.GetTaskPushNotificationConfigRequest.fromJSON(request)),
    ),
  push_list: async (request) =>
    a2a.ListTaskPushNotificationConfigsResponse.toJSON(
      await client.listTaskPushNotificationConfig(a2a.ListTaskPushNotificationConfigsRequest.fromJSON(request)),
    ),
  push_delete: (request) =>
    client.deleteTaskPushNotificationConfig(a2a.DeleteTaskPushNotificationConfigRequest.fromJSON(request)),
};

await answer((operation, request) => operations[operation](request));
