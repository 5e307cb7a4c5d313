import type { Page, PageQuery } from '@carillon/admin/page';
import { z } from 'zod';
import { type ApiRequest, callApi, toApiFailure } from '../api-client.ts';
import { commandFailed } from '../failure.ts';
import { readFullPage } from '../paging.ts';

/** Path of the console's admin API. */
const BASE_PATH = '/api/v1';
/** Maximum items of a page of the console. */
const MAX_PAGE = 100;

/** Query of a request; absent values are left out. */
type Query = Readonly<Record<string, string | number | undefined>>;

export type ConsoleClient = ReturnType<typeof createConsoleClient>;

/** Creates the client of a console's admin API, which sends an operator token with each request. */
export function createConsoleClient(base: string, token: string) {
  /** @throws Failure with the console's message and code, or unreachable */
  async function send<S extends z.ZodType>(
    method: ApiRequest['method'],
    path: string,
    schema: S,
    body?: object,
  ): Promise<z.infer<S>> {
    const request = {
      ...{ method, path: `${BASE_PATH}${path}`, key: token },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    const response = await callApi(base, request, 'console');
    if (response.status === 401) {
      throw commandFailed('The token in CARILLON_TOKEN is not valid, has expired or was revoked.');
    }
    if (response.status !== 200) throw toApiFailure(base, response, 'console');
    return parse(base, response.text, schema);
  }

  const get = <S extends z.ZodType>(path: string, schema: S, query: Query = {}) =>
    send('GET', `${path}${formatQuery(query)}`, schema);

  return {
    send,
    get,
    /** Reads pages of a list until `limit` items are read or the list ends. */
    async list<S extends z.ZodType>(
      path: string,
      item: S,
      page: PageQuery,
      filter: Query = {},
    ): Promise<Page<z.infer<S>>> {
      const response = z.object({ items: z.array(item), next: z.string().exactOptional() });
      return readFullPage(page, ({ limit, cursor }) =>
        get(path, response, { ...filter, limit: Math.min(limit, MAX_PAGE), cursor }),
      );
    },
  };
}

function parse<S extends z.ZodType>(base: string, text: string, schema: S): z.infer<S> {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    const [issue] = error instanceof z.ZodError ? error.issues : [];
    const where = issue === undefined ? 'no JSON' : `another ${issue.path.join('.')}`;
    throw commandFailed(
      `The console at ${base} is of another version than this command: its response has ${where}.`,
    );
  }
}

function formatQuery(query: Query): string {
  const fields = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  return fields.length === 0 ? '' : `?${new URLSearchParams(fields)}`;
}
