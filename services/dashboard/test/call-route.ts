import { toConsoleError } from '../src/http/errors.ts';
import type { ConsoleRoute, SessionOperator } from '../src/http/route.ts';

const OWNER: SessionOperator = { id: 'o', name: 'Olga', role: 'owner', accounts: 'all' };

/** Result of a route: its body, and the account that the router checks before. */
export interface RouteResult {
  account: string | undefined;
  /** Absent when there is no such account. */
  body?: RouteBody;
}

/** A body as JSON: the fields that tests read by name, of all routes. */
export interface RouteBody {
  id: string;
  state: string;
  items: { id: string; kind: string }[];
  next?: string;
  scanned: number;
  redrivenAs: string[];
  timeline: { what: string; at: number }[];
}

/** Calls a route as the router does, without session and role: parses the input, finds the account, handles. */
export async function callRoute(
  routes: readonly ConsoleRoute[],
  method: ConsoleRoute['method'],
  path: string,
  input: Record<string, unknown>,
  operator: SessionOperator = OWNER,
): Promise<RouteResult> {
  const route = routes.find((one) => one.method === method && one.path === path);
  if (route === undefined) throw new Error(`no route ${method} ${path}`);
  const parsed = route.input.parse(input);
  const account = typeof route.account === 'function' ? await route.account(parsed) : route.account;
  if (account === undefined) return { account };
  const bodyText = JSON.stringify(input);
  const handled = route.handle({ input: parsed, bodyText, operator, requestId: 'r' });
  const body = await handled.catch((error: unknown) => {
    throw toConsoleError(error);
  });
  return { account, body: JSON.parse(JSON.stringify(body ?? null)) as RouteBody };
}

/** Calls a route and returns its body. @throws when its account does not exist */
export async function readRoute(...call: Parameters<typeof callRoute>): Promise<RouteBody> {
  const { body } = await callRoute(...call);
  if (body === undefined) throw new Error(`no account for ${call[2]}`);
  return body;
}
