import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLogger } from '../../packages/runtime/src/logger.ts';

/** The floor of the edge: parses the body, sends an error, logs one line. Its standard output is a file. */
const log = createLogger('floor', 'info');
const HEADERS = { 'content-type': 'application/json; charset=utf-8' };

const server = createServer((request, response) => {
  const startedAt = performance.now();
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as { schedule: number };
    const text = JSON.stringify({ error: `no push at ${body.schedule}`, code: 'INVALID_PARAM' });
    response.writeHead(400, { ...HEADERS, 'content-length': Buffer.byteLength(text) }).end(text);
    const ms = performance.now() - startedAt;
    log.info({ route: 'POST /push', status: 400, ms, id: randomUUID() }, 'request');
  });
});
await once(server.listen({ host: '127.0.0.1', port: 0 }), 'listening');
process.on('disconnect', () => process.exit());
process.send?.((server.address() as AddressInfo).port);
