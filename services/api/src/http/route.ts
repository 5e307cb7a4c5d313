import { randomUUID } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { LIMITS } from '@carillon/core/limits';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import type { Request, RequestHandler, Response } from 'express';
import { type Answer, sendAnswer, sendError, toApiError } from './answer.ts';
import type { Caller } from './authenticate.ts';
import { parseJsonObject } from './json-text.ts';

/** A JSON object as it came in: its value, and its text for what must not be changed. */
export interface Body {
  value: Record<string, unknown>;
  text: string;
}

/** What a handler gets of a request. */
export interface Incoming {
  params: Record<string, string>;
  body: Body;
  header(name: string): string | undefined;
  /** A query parameter that was given exactly once. */
  query(name: string): string | undefined;
}

/** Wraps handlers into Express's form: who asks, the body, one answer, one log line. */
export interface Routing {
  /** For the owner of an API key. */
  backend(
    options: { bodyBytes?: number },
    handle: (incoming: Incoming, caller: Caller) => Promise<Answer>,
  ): RequestHandler;
  /** For devices, which prove themselves in the body. A failure of ours is 503: a device that is refused registers anew. */
  device(handle: (incoming: Incoming) => Promise<Answer>): RequestHandler;
  /** For what isn't there. */
  refuse(error: () => ApiError): RequestHandler;
}

const NO_BODY: Body = { value: {}, text: '{}' };
/** Nesting of a whole request: the payload's and the object around it. */
const BODY_DEPTH = LIMITS.payloadDepth + 1;
const DEVICE_BODY_BYTES = 16 * 1024;

/** Makes the wrappers of one process. */
export function createRouting(deps: {
  log: Logger;
  metrics: Metrics;
  authenticate: (request: Request) => Promise<Caller>;
  readBody: (request: Request, limit: number) => Promise<string>;
  onSurprise: (error: unknown) => void;
}): Routing {
  const durations = deps.metrics.durations(
    'carillon_http_request_seconds',
    'Duration of HTTP requests',
    ['route', 'status'],
  );

  async function read(request: Request, limit: number | undefined): Promise<Body> {
    if (limit === undefined) return NO_BODY;
    const text = await deps.readBody(request, limit);
    return { value: parseJsonObject(text, BODY_DEPTH), text };
  }

  /** One line and one measurement a request, also when it fails. Never the URL: the key is in it. */
  function finish(request: Request, response: Response, startedAt: number, facts: object): void {
    const route = `${request.method} ${request.route?.path ?? 'none'}`;
    const seconds = (performance.now() - startedAt) / 1_000;
    durations.observe(seconds, { route, status: String(response.statusCode) });
    deps.log.info(
      { route, status: response.statusCode, ms: Math.round(seconds * 1e5) / 100, ...facts },
      'request',
    );
  }

  function run(
    handle: (request: Request, facts: { app?: string }) => Promise<Answer>,
    onFailure: (error: unknown) => ApiError = toApiError,
  ): RequestHandler {
    return async (request, response) => {
      const startedAt = performance.now();
      const id = randomUUID();
      const facts: { id: string; app?: string; code?: string } = { id };
      response.setHeader('x-request-id', id);
      try {
        sendAnswer(response, await handle(request, facts));
      } catch (thrown) {
        const error = onFailure(thrown);
        facts.code = error.code;
        if (!(thrown instanceof ApiError)) {
          deps.onSurprise(thrown);
          deps.log.error({ id, err: thrown }, 'request failed');
        }
        sendError(response, error);
      }
      finish(request, response, startedAt, facts);
    };
  }

  return {
    backend: ({ bodyBytes }, handle) =>
      run(async (request, facts) => {
        const caller = await deps.authenticate(request);
        facts.app = caller.app._id;
        const body = await read(request, bodyBytes);
        return handle(incoming(request, body), caller);
      }),
    device: (handle) =>
      run(
        async (request) => handle(incoming(request, await read(request, DEVICE_BODY_BYTES))),
        (thrown) => (thrown instanceof ApiError ? thrown : new ApiError('SERVICE_UNAVAILABLE')),
      ),
    refuse: (error) =>
      run(async () => {
        throw error();
      }),
  };
}

function incoming(request: Request, body: Body): Incoming {
  return {
    params: request.params as Record<string, string>,
    body,
    header: (name) => request.get(name),
    query: (name) => {
      const value = request.query[name];
      return typeof value === 'string' ? value : undefined;
    },
  };
}
