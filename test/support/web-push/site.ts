import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ROOT } from '../first-run/test-home.ts';

/** Serves a page, with the files of the web client beside it, on a host name for which browsers need no https. */
export async function startSite(html: string) {
  const server = createServer(({ url }, response) => {
    if (url === '/') return response.setHeader('content-type', 'text/html').end(html);
    const file = ['carillon-web-push.js', 'carillon-service-worker.js'].find(
      (name) => url === `/${name}`,
    );
    if (file === undefined) return response.writeHead(404).end();
    const script = readFileSync(join(ROOT, 'packages/web-client', file));
    return response.setHeader('content-type', 'text/javascript').end(script);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    async stop(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
