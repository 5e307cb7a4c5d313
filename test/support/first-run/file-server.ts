import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A file server of a test's own. */
export interface FileServer {
  url: string;
  /** Paths that were requested. */
  requestedPaths: string[];
  stop(): Promise<void>;
}

/** Starts one; `contentFor` returns the content of a path, or undefined when there is none. */
export async function startFileServer(
  contentFor: (path: string) => Buffer | string | undefined,
): Promise<FileServer> {
  const requestedPaths: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    requestedPaths.push(path);
    const content = contentFor(path);
    response.writeHead(content === undefined ? 404 : 200).end(content);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestedPaths,
    stop: async () => {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
