import { once } from 'node:events';
import { createSecureServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import type { Ports } from './fixture.ts';

/** Messages: first the certificate, replied to with the ports; then requests for the CPU time in microseconds. */
export type ServersCommand = { tls: { cert: string; key: string } } | 'cpu';
export type ServersReply = { ports: Ports } | { cpu: number };

/** Apple's limit. */
const APNS_MAX_STREAMS = 1_000;
const MAX_STREAMS = 100;
/** Connections must outlive the rounds of the other side. */
const KEEP_ALIVE_MS = 600_000;
const ACCEPTED = JSON.stringify({ name: 'projects/bench/messages/0:1500415314455276%31bd1c96' });
const TOKEN = JSON.stringify({ access_token: 'an-access-token-of-the-bench', expires_in: 3_599 });

/**
 * Three servers that accept everything. They validate nothing: the sandbox's validation would make the server the
 * slower side, and the senders would only wait.
 */
async function serve(tls: { cert: string; key: string }): Promise<Ports> {
  const apns = createSecureServer({ ...tls, settings: { maxConcurrentStreams: APNS_MAX_STREAMS } });
  apns.on('stream', accept);

  const settings = { maxConcurrentStreams: MAX_STREAMS };
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
  // The types lack the HTTP/1.1 properties.
  for (const each of [fcm, webPush]) Object.assign(each, { keepAliveTimeout: KEEP_ALIVE_MS });
  const [apnsPort, fcmPort, webPushPort] = await Promise.all(
    [apns, fcm, webPush].map((each) => listen(each)),
  );
  return { apns: apnsPort ?? 0, fcm: fcmPort ?? 0, webPush: webPushPort ?? 0 };
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

process.on('message', async (order: ServersCommand) => {
  const { user, system } = process.cpuUsage();
  const reply: ServersReply =
    order === 'cpu' ? { cpu: user + system } : { ports: await serve(order.tls) };
  process.send?.(reply);
});
process.on('disconnect', () => process.exit());
