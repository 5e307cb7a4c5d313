import { createServer, type ServerResponse } from 'node:http';
import type { Listen } from './env.ts';
import type { Metrics } from './metrics.ts';

/** One thing that must be well for the process to take work; resolves, or says in words what is wrong. */
export interface ReadyCheck {
  name: string;
  check(): Promise<void>;
}

const CHECK_DEADLINE_MS = 2_000;

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function fault(check: ReadyCheck): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), CHECK_DEADLINE_MS);
  });
  try {
    await Promise.race([check.check(), deadline]);
    return undefined;
  } catch (error) {
    return `${check.name}: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The operators' port: /livez (the process runs), /readyz (started, not stopping, every check well),
 * /metrics (Prometheus). Returns a function that closes it.
 */
export async function serveOps(
  listen: Listen,
  metrics: Metrics,
  state: { started: boolean; stopping: boolean; checks: ReadyCheck[] },
): Promise<() => Promise<void>> {
  const server = createServer(async (request, response) => {
    const path = (request.url ?? '').split('?')[0];
    if (path === '/livez') return answer(response, 200, { alive: true });
    if (path === '/readyz') {
      const faults = state.started && !state.stopping ? [] : ['not started, or stopping'];
      for (const result of await Promise.all(state.checks.map(fault))) {
        if (result !== undefined) faults.push(result);
      }
      return answer(response, faults.length === 0 ? 200 : 503, {
        ready: faults.length === 0,
        faults,
      });
    }
    if (path === '/metrics') {
      const { contentType, text } = await metrics.expose();
      return response.writeHead(200, { 'content-type': contentType }).end(text);
    }
    return answer(response, 404, { error: 'There are /livez, /readyz and /metrics.' });
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
