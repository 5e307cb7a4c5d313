import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import type { TickingClock } from '../src/http/deadlines.ts';
import { createRouting, type Routing } from '../src/http/routing.ts';
import { type RouteRegistrar, type ServerSettings, serve } from '../src/http/server.ts';

type RoutingOptions = Parameters<typeof createRouting>[0];

/** Returns the caller of an account, as authentication does. */
export const callerOf = (account: string) => ({
  app: { _id: 'a', account, name: 'n', createdAt: new Date() },
  account: { _id: account, name: 'n', plan: 'pro' as const, createdAt: new Date() },
  apiKey: 'k',
  hasFcm: false,
});

/** Starts the HTTP edge of an API with routes of a test; every key is valid, unless `authenticate` is given. */
export async function startEdge(
  addRoutes: (routing: Routing) => RouteRegistrar,
  options: Partial<RoutingOptions> = {},
  settings: ServerSettings = {},
) {
  const routing = createRouting({
    log: createLogger('edge', 'fatal'),
    metrics: createMetrics(),
    authenticate: () => callerOf('b'),
    countRequest: async () => undefined,
    readBody: createBodyReader(),
    onUnexpectedError: () => undefined,
    ...options,
  });
  const listen = { host: '127.0.0.1', port: 0 };
  const server = await serve(listen, routing, [addRoutes(routing)], settings);
  return { ...server, url: `http://127.0.0.1:${server.port}` };
}

export type Edge = Awaited<ReturnType<typeof startEdge>>;

/** Opens a connection and collects everything that it receives. */
export async function openConnection({ port }: Edge): Promise<{ socket: Socket; text(): string }> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  return { socket, text: () => text };
}

/** Creates a clock that stands still, except when the test has time pass. */
export function createTestClock() {
  const ticks = new Set<() => void>();
  let now = 0;
  return {
    now: () => now,
    // All ticks of the edge are 100 ms apart.
    every(_ms: number, tick: () => void) {
      ticks.add(tick);
      return () => ticks.delete(tick);
    },
    pass(ms: number): void {
      for (let passed = 0; passed < ms; passed += 100) {
        now += 100;
        for (const tick of [...ticks]) tick();
      }
    },
    /** Has time pass in which the process does not run. */
    freeze(ms: number): void {
      now += ms;
    },
  } satisfies TickingClock & Record<string, unknown>;
}
