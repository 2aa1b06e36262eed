// A client on @a2a-js/sdk 0.3, driven by lines of JSON on stdin; see ../drivers.py.
import { answer, collect, fetchImpl, require, settings } from './lines.mjs';

const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  require('@a2a-js/sdk/client');

const resolver = new DefaultAgentCardResolver({ fetchImpl });
const same = (each) => each;
let client;

async function connect() {
  const card = await resolver.resolve(settings.url);
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [settings.binding],
    cardResolver: resolver,
  });
  client = await factory.createFromAgentCard(card);
  return card;
}

const operations = {
  card: connect,
  extended_card: () => client.getAgentCard(),
  send: (request) => client.sendMessage(request),
  stream: (request) => collect(client.sendMessageStream(request), same),
  get: (request) => client.getTask(request),
  cancel: (request) => client.cancelTask(request),
  subscribe: (request) => collect(client.resubscribeTask(request), same, () => client.cancelTask(request)),
  push_set: (request) => client.setTaskPushNotificationConfig(request),
  push_get: (request) => client.getTaskPushNotificationConfig(request),
  push_list: (request) => client.listTaskPushNotificationConfig(request),
  push_delete: (request) => client.deleteTaskPushNotificationConfig(request),
};

await answer((operation, request) => operations[operation](request));
