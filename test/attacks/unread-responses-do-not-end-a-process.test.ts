import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { findProcess } from '../support/stack/dev-file.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const CONNECTIONS = 3;
/** Bytes of requests that each connection sends. */
const SENT_BYTES = 156_000;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ dashboards: 1 });
});
afterAll(() => stack?.stop());

/** Each HTTP server, with the path whose response is the largest that needs no key, and its status. */
const SERVERS: [string, () => string, number][] = [
  ['the API', () => `${stack.dev.api}/openapi.json`, 200],
  ['the console', () => `${stack.dev.console}/`, 200],
  ['the gateway', () => `${stack.dev.ws?.replace('ws:', 'http:')}/`, 426],
  ['the sandbox', () => `${stack.dev.sandbox}/received`, 200],
  ['the port for operators', () => `${findProcess(stack.dev, 'api', 0).ops}/metrics`, 200],
];

/** Sends pipelined requests without reading. */
async function openPipeline(url: URL): Promise<Socket> {
  const socket = connect(Number(url.port), url.hostname);
  socket.on('error', () => undefined).pause();
  await once(socket, 'connect');
  const request = `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`;
  socket.write(request.repeat(SENT_BYTES / request.length));
  return socket;
}

test.each(SERVERS)(
  '%s closes connections that pipeline and read nothing, and serves others',
  async (_name, urlOf, status) => {
    const url = new URL(urlOf());
    const attackers = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => openPipeline(url)),
    );
    for (const socket of attackers) {
      // A client that reads nothing learns of the end of its connection when it writes.
      await until(() => socket.destroyed || void socket.write('\r\n'), {
        what: 'a closed connection',
      });
    }
    const response = await fetch(url);
    await response.arrayBuffer();
    expect(response.status).toBe(status);
    expect(stack.output()).not.toContain(' ended (');
  },
);
