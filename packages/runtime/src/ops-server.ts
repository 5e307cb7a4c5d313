import type { ServerResponse } from 'node:http';
import { isAllowedHost } from './allowed-host.ts';
import type { ListenAddress } from './env.ts';
import type { Metrics } from './metrics.ts';
import { http } from './node-http.ts';

/** Checks the process; each function returns the faults, none if the process is healthy. */
export interface Health {
  /** Faults for which no new work is to be sent to the process. */
  readiness(): Promise<string[]>;
  /** Faults that only a restart resolves. */
  liveness(): Promise<string[]>;
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/**
 * Starts the ops server: /livez and /readyz (503 with the faults of `health`), /metrics (Prometheus). Returns a function
 * that closes it.
 *
 * @param names allowed host names besides `localhost` and IP addresses
 */
export async function startOpsServer(
  listen: ListenAddress,
  metrics: Pick<Metrics, 'expose'>,
  health: Health,
  names: readonly string[] = [],
): Promise<() => Promise<void>> {
  const allowedNames = new Set(names.map((name) => name.toLowerCase()));
  const server = http.createServer(async (request, response) => {
    const { host } = request.headers;
    // RFC 9110, 15.5.20. HTTP/1.0 may omit the host, and no browser uses it.
    if (host !== undefined && !isAllowedHost(host, allowedNames)) {
      return sendJson(response, 421, { error: 'The host name is not in OPS_HOSTS.' });
    }
    const path = (request.url ?? '').split('?')[0];
    if (path === '/livez') {
      const faults = await health.liveness();
      return sendJson(response, faults.length === 0 ? 200 : 503, {
        alive: faults.length === 0,
        faults,
      });
    }
    if (path === '/readyz') {
      const faults = await health.readiness();
      return sendJson(response, faults.length === 0 ? 200 : 503, {
        ready: faults.length === 0,
        faults,
      });
    }
    if (path === '/metrics') {
      const { contentType, text } = await metrics.expose();
      return response.writeHead(200, { 'content-type': contentType }).end(text);
    }
    return sendJson(response, 404, {
      error: 'The endpoint does not exist. Available: /livez, /readyz, /metrics.',
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listen, resolve);
  });
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
}
