// Reads steps from stdin, one line of JSON each, and answers each with one; see ../drivers.py.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

export const settings = JSON.parse(process.argv[2]);
// The packages of the working directory, not those beside this file.
export const require = createRequire(`${process.cwd()}/`);

let forced = {};
export const fetchImpl = (url, init = {}) => {
  const headers = new Headers(init.headers);
  for (const [name, value] of Object.entries(forced)) headers.set(name, value);
  return fetch(url, { ...init, headers });
};

// Every event of a stream; `first` is awaited after the first one.
export async function collect(stream, plain, first) {
  const events = [];
  for await (const event of stream) {
    events.push(plain(event));
    if (events.length === 1 && first) await first();
  }
  return events;
}

export async function answer(perform) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: operation, request } = JSON.parse(line);
    let told;
    try {
      if (operation === 'headers') forced = request;
      told = { result: (operation === 'headers' ? null : await perform(operation, request)) ?? null };
    } catch (error) {
      const code = error.code ?? error.envelopeCode ?? error.statusCode ?? null;
      told = { error: `${error.constructor.name} ${error.name}`, code, message: String(error.message) };
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
}
