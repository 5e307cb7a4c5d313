import type { LookupFunction } from 'node:net';
import type { Answer } from './answer.ts';
import { createHttp1 } from './over-http1.ts';
import { postOverHttp2 } from './over-http2.ts';
import { createRouting, type Detours } from './route.ts';
import { createSessions } from './sessions.ts';

/** Sends requests to push services, which are strangers: each is bounded in time and in what is read of it. */
export interface Poster {
  /** Never rejects; settles within the deadline. */
  post(endpoint: URL, headers: Record<string, string | number>, body: Buffer): Promise<Answer>;
  close(): void;
}

/** What a poster may be told. */
export interface PosterOptions {
  detours: Detours;
  /** PEM of the authority that signed the detours' certificates. */
  ca?: string | undefined;
  deadlineMs?: number;
  /** In place of the system's look-up of names. */
  look?: LookupFunction;
}

const DEADLINE_MS = 10_000;

/** Makes a poster with links of its own: one over HTTP/2 where a service speaks it, else some over HTTP/1.1. */
export function createPoster({ deadlineMs = DEADLINE_MS, ...routing }: PosterOptions): Poster {
  const routeTo = createRouting(routing);
  const sessions = createSessions();
  const http1 = createHttp1();

  return {
    async post(endpoint, headers, body) {
      const startedAt = performance.now();
      const route = routeTo(endpoint);
      const opened = await sessions.open(endpoint.origin, route, deadlineMs);
      if (opened !== 'http/1.1' && 'error' in opened) return { ...opened, isStale: false };
      const request = {
        path: `${endpoint.pathname}${endpoint.search}`,
        headers,
        body,
        deadlineMs: Math.max(1, deadlineMs - (performance.now() - startedAt)),
      };
      if (opened === 'http/1.1') return http1.post(route, request);
      const { session } = opened;
      const onSilence = () => sessions.retire(session);
      return postOverHttp2(session, route.authority, request, onSilence);
    },
    close() {
      sessions.close();
      http1.close();
    },
  };
}
