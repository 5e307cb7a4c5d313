import type { ServerResponse } from 'node:http';
import { isAllowedHost } from './allowed-host.ts';
import type { ListenAddress } from './env.ts';
import { limitLinks } from './link-limits.ts';
import type { Metrics } from './metrics.ts';
import { http } from './node-http.ts';
import type { LastProgress } from './progress.ts';

/** Checks the process. */
export interface Health {
  /** Returns the faults for which no new work is to be sent to the process, none if it is ready. */
  readiness(): Promise<string[]>;
  /** Returns the faults that only a restart resolves, none if the process is alive. */
  liveness(): Promise<string[]>;
  /** Returns what the process did last; its length is bounded by the settings. */
  progress(): LastProgress[];
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/**
 * Starts the ops server: /livez and /readyz (503 with the faults of `health`; both with its progress), /metrics
 * (Prometheus). Returns a function that closes it.
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
  const links = limitLinks(async (request, response) => {
    const { host } = request.headers;
    // RFC 9110, 15.5.20. HTTP/1.0 may omit the host, and no browser uses it.
    if (host !== undefined && !isAllowedHost(host, allowedNames)) {
      return sendJson(response, 421, { error: 'The host name is not in OPS_HOSTS.' });
    }
    const sendHealth = (name: 'alive' | 'ready', faults: string[]): void => {
      const isHealthy = faults.length === 0;
      const body = { [name]: isHealthy, faults, progress: health.progress() };
      sendJson(response, isHealthy ? 200 : 503, body);
    };
    const path = (request.url ?? '').split('?')[0];
    if (path === '/livez') return sendHealth('alive', await health.liveness());
    if (path === '/readyz') return sendHealth('ready', await health.readiness());
    if (path === '/metrics') {
      const { contentType, text } = await metrics.expose();
      return response.writeHead(200, { 'content-type': contentType }).end(text);
    }
    return sendJson(response, 404, {
      error: 'The endpoint does not exist. Available: /livez, /readyz, /metrics.',
    });
  });
  const server = http.createServer(links.listener);
  links.watch(server);
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
