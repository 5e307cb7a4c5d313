import { once } from 'node:events';
import { createSecureServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import type { Ports } from './scene.ts';

/** First the certificate, answered by the ports; then the servers' CPU so far, in microseconds. */
export type ServersOrder = { tls: { cert: string; key: string } } | 'cpu';
export type ServersAnswer = { ports: Ports } | { cpu: number };

/** Apple's own. */
const APNS_STREAMS = 1_000;
const STREAMS = 100;
/** Links outlive the other side's turn. */
const KEEP_ALIVE_MS = 600_000;
const ACCEPTED = JSON.stringify({ name: 'projects/bench/messages/0:1500415314455276%31bd1c96' });
const TOKEN = JSON.stringify({ access_token: 'an-access-token-of-the-bench', expires_in: 3_599 });

/**
 * Three servers that take everything. They check nothing: the sandbox does, and that would make it the slower
 * side, for which senders would only wait.
 */
async function serve(tls: { cert: string; key: string }): Promise<Ports> {
  const apns = createSecureServer({ ...tls, settings: { maxConcurrentStreams: APNS_STREAMS } });
  apns.on('stream', accept);

  const settings = { maxConcurrentStreams: STREAMS };
  const fcm = createSecureServer({ ...tls, settings, allowHTTP1: true }, (request, response) => {
    const body = request.url === '/token' ? TOKEN : ACCEPTED;
    request.resume().once('end', () => {
      response.writeHead(200, { 'content-type': 'application/json; charset=UTF-8' });
      response.end(body);
    });
  });
  const webPush = createSecureServer(
    { ...tls, settings, allowHTTP1: true },
    (request, response) => {
      request.resume().once('end', () => {
        response.writeHead(201, { location: '/message/1', ttl: '86400' }).end();
      });
    },
  );
  // Their types lack what they have for HTTP/1.1.
  for (const each of [fcm, webPush]) Object.assign(each, { keepAliveTimeout: KEEP_ALIVE_MS });
  const [one, two, three] = await Promise.all([apns, fcm, webPush].map((each) => listen(each)));
  return { apns: one ?? 0, fcm: two ?? 0, webPush: three ?? 0 };
}

function accept(stream: ServerHttp2Stream): void {
  stream.resume().once('end', () => {
    stream.respond({ ':status': 200 }, { endStream: true });
  });
}

async function listen(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

process.on('message', async (order: ServersOrder) => {
  const { user, system } = process.cpuUsage();
  const reply: ServersAnswer =
    order === 'cpu' ? { cpu: user + system } : { ports: await serve(order.tls) };
  process.send?.(reply);
});
process.on('disconnect', () => process.exit());
