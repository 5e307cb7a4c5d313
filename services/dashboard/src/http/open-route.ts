import type { z } from 'zod';
import type { OpenSession } from './session-reader.ts';

/** Request of a route that works without a role: login and what belongs to it. */
export interface OpenRequest<Input> {
  input: Input;
  requestId: string;
  /** The client's address. */
  address: string;
  host: string;
  cookies: ReadonlyMap<string, string>;
  /** The session, if there is one. */
  session: OpenSession | undefined;
  /** The part of the URL after the host. */
  url: string;
  header(name: string): string | undefined;
  /** Aborted when the client has left, or has its response. */
  signal: AbortSignal;
}

/** Response of such a route. */
export interface OpenReply<Body = unknown> {
  body?: Body;
  /** Values of Set-Cookie. */
  cookies?: string[];
  /** Path or URL to go to, instead of a body. */
  redirect?: string;
}

type OpenMethod = 'get' | 'post';

/**
 * A route that needs no role. The router checks the Origin of every POST, and the CSRF token if `session` is `required`.
 * Such a route writes its entries of the audit log itself.
 */
export interface OpenRoute<
  Input = unknown,
  Body = unknown,
  OwnMethod extends OpenMethod = OpenMethod,
  Path extends string = string,
> {
  method: OwnMethod;
  /** Path under /api. */
  path: Path;
  session: 'required' | 'optional';
  /** Parses the query or the body. */
  input: z.ZodType<Input>;
  handle(request: OpenRequest<Input>): Promise<OpenReply<Body>>;
}

/** Checks a route's types and erases its input's. */
export function defineOpenRoute<Input, Body, OwnMethod extends OpenMethod, Path extends string>(
  route: OpenRoute<Input, Body, OwnMethod, Path>,
): OpenRoute<unknown, Body, OwnMethod, Path> {
  return route;
}
