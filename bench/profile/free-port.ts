import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** Finds a free port of the loopback address. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
