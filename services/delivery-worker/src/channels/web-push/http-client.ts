import type { MaySend } from '../../deliver/provider.ts';
import { type Http2Result, postOverHttp2 } from '../http2.ts';
import { type ConnectTargetOptions, createTargetResolver } from './connect-target.ts';
import { createHttp2Sessions } from './http2-sessions.ts';
import { createHttp1Client } from './over-http1.ts';
import { MAX_BODY_BYTES, type PushServiceResponse } from './response.ts';

/** A push on its way to a subscription. */
export interface EndpointRequest {
  endpoint: URL;
  /** The push service is of a browser vendor or listed by the operator. */
  isKnown: boolean;
  headers: Record<string, string | number>;
  body: Buffer;
  maySend: MaySend;
}

/** Settings of the client. */
export interface PushHttpClientOptions extends ConnectTargetOptions {
  deadlineMs?: number;
}

/** Deadline of a request, in milliseconds. */
const DEADLINE_MS = 10_000;

/** HTTP client for push services, which aren't trusted: requests are limited in time and in response size. */
export type PushHttpClient = ReturnType<typeof createPushHttpClient>;

/** Creates a client with its own connections: one over HTTP/2 where a service supports it, else some over HTTP/1.1. */
export function createPushHttpClient({
  deadlineMs = DEADLINE_MS,
  ...targetOptions
}: PushHttpClientOptions) {
  const resolveTarget = createTargetResolver(targetOptions);
  const sessions = createHttp2Sessions();
  const http1 = createHttp1Client();

  return {
    /** Posts a push. Never rejects; settles within the deadline. */
    async post({
      endpoint,
      isKnown,
      headers,
      body,
      maySend,
    }: EndpointRequest): Promise<PushServiceResponse> {
      const startedAt = performance.now();
      const target = resolveTarget(endpoint, isKnown);
      const openResult = await sessions.open(endpoint.origin, target, deadlineMs);
      if (openResult !== 'http/1.1' && 'error' in openResult)
        return { ...openResult, isStale: false };
      const request = {
        path: `${endpoint.pathname}${endpoint.search}`,
        headers,
        body,
        maySend,
        deadlineMs: Math.max(1, deadlineMs - (performance.now() - startedAt)),
      };
      if (openResult === 'http/1.1') return http1.post(target, request);
      const overHttp2 = {
        ...request,
        session: openResult.session,
        // The session was opened with them.
        waitForSettings: () => true as const,
        headers: {
          ':method': 'POST',
          ':path': request.path,
          ':authority': target.authority,
          ...headers,
        },
        maxResponseBytes: MAX_BODY_BYTES,
        onTimeout: sessions.retire,
      };
      return postOverHttp2(overHttp2, toPushServiceResponse);
    },
    close(): void {
      sessions.close();
      http1.close();
    },
  };
}

/** Converts a result; a status is enough, so a body that was cut short counts as a response. */
function toPushServiceResponse(result: Http2Result): PushServiceResponse {
  if (result.kind === 'withheld') return 'withheld';
  if (result.kind === 'response') return result;
  const { code, message } = result.error as NodeJS.ErrnoException;
  return { error: code ?? message, isStale: result.isUnprocessed };
}
