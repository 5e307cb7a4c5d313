import type { z } from 'zod';

/** Roles, weakest first: each may do what those before it may. */
export const ROLES = ['viewer', 'operator', 'admin', 'owner'] as const;
export type Role = (typeof ROLES)[number];

/** Returns true when `role` may do what `least` may. */
export function hasRole(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least);
}

/** The operator of a valid session, or an operator token; `accounts` are the ids that it may see. */
export interface SessionOperator {
  id: string;
  name: string;
  role: Role;
  accounts: readonly string[] | 'all';
}

/** Returns true when the operator may see this account. */
export function mayUseAccount(operator: SessionOperator, account: string): boolean {
  return operator.accounts === 'all' || operator.accounts.includes(account);
}

export interface ConsoleRequest<Input> {
  input: Input;
  /** The body as it was received, for fields that must be stored unchanged; empty without one. */
  bodyText: string;
  /** Value of the header `Idempotency-Key`; undefined without one. */
  idempotencyKey?: string | undefined;
  operator: SessionOperator;
  requestId: string;
}

// As a method, its parameter is compared both ways, so that routes of all inputs fit in one list.
interface AccountOfInput<Input> {
  accountOf(input: Input): Promise<string | undefined>;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** A route of the JSON API. The router checks session or token, CSRF, role and account, and parses the input, before `handle`. */
export interface ConsoleRoute<
  Input = unknown,
  Output = unknown,
  OwnMethod extends Method = Method,
  Path extends string = string,
> {
  method: OwnMethod;
  /** Path under /api in the syntax of Express 5: `/apps/:app/pushes`. */
  path: Path;
  /** The least role. */
  role: Role;
  /** Parses `{ ...query, ...body, ...path parameters }`; values of the query are strings. */
  input: z.ZodType<Input>;
  /**
   * Account that the route works on. `installation`: the route is of no account, and `operator.accounts` must be
   * `'all'`. `any`: the handler filters by `operator.accounts`. A function gets the account from the input; undefined
   * means not found, which has the same response as another account's object.
   */
  account: 'installation' | 'any' | AccountOfInput<Input>['accountOf'];
  /** Action in the audit log, such as `push.send`. Every route that changes something has one; others may have one. */
  audit?: string;
  /** True for a POST that changes nothing: its input is too long for a query. */
  onlyReads?: true;
  /** Returns facts for the audit entry besides the ids in the path: never secrets, payloads or tokens. */
  auditFacts?(input: Input): Record<string, string | number | boolean>;
  /** The route is part of the admin API: it is also under /api/v1, for operator tokens. It has a JSON response. */
  isPublic?: true;
  /** Largest body in bytes; 256 KB by default. */
  bodyLimit?: number;
  /** Returns the JSON body, or an `EventStream`. Throws a `ConsoleError` for an expected failure. */
  handle(request: ConsoleRequest<Input>): Promise<Output>;
}

/**
 * Checks a route's types and erases its input's, so that routes of all inputs fit in one list. The other types stay:
 * those of the pages are derived from them.
 */
export function defineRoute<Input, Output, OwnMethod extends Method, Path extends string>(
  // The schema alone decides the type, whatever the functions beside it accept.
  route: ConsoleRoute<NoInfer<Input>, Output, OwnMethod, Path> & { input: z.ZodType<Input> },
): ConsoleRoute<unknown, Output, OwnMethod, Path> {
  return route;
}

/** HTTP status of each code of an error. */
export const ERROR_STATUS = {
  INVALID_PARAM: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  ACCOUNT_SUSPENDED: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  TOO_LARGE: 413,
  TOO_MANY_ATTEMPTS: 429,
  RATE_LIMIT_EXCEEDED: 429,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const;

export type ConsoleErrorCode = keyof typeof ERROR_STATUS;

/** An expected failure of a request. Its message is shown to the operator. */
export class ConsoleError extends Error {
  readonly code: ConsoleErrorCode;
  readonly status: number;
  /** Seconds after which a repetition makes sense, sent as Retry-After. */
  readonly retryAfterSeconds: number | undefined;
  /** Name of the invalid parameter of a push, as the API names it. */
  readonly parameter: string | undefined;

  constructor(
    code: ConsoleErrorCode,
    message: string,
    retryAfterSeconds?: number,
    parameter?: string,
  ) {
    super(message);
    this.code = code;
    this.status = ERROR_STATUS[code];
    this.retryAfterSeconds = retryAfterSeconds;
    this.parameter = parameter;
  }
}

/** Creates the one error for everything that does not exist or belongs to an account the operator may not see. */
export function notFound(): ConsoleError {
  return new ConsoleError('NOT_FOUND', 'Nothing with this id exists, or you have no access to it.');
}

/**
 * Result of a route that responds with server-sent events. The router writes the headers and keep-alive comments, and
 * closes the stream when the client leaves, the session ends, the client does not read, or the process stops.
 */
export class EventStream {
  /**
   * Starts sending: `send(event, data)` writes `data` as JSON. `closed` is aborted when the stream ends; release
   * everything then.
   */
  readonly open: (send: (event: string, data: unknown) => void, closed: AbortSignal) => void;

  constructor(open: EventStream['open']) {
    this.open = open;
  }
}
