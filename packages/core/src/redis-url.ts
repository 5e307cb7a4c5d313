/*
 * The addresses of Redis and Valkey that settings take:
 *
 *   redis://[user:password@]host[:port][/db]                       one server
 *   redis+sentinel://[user:password@]host[:port],…/name[/db]       the primary that Sentinels name
 *   redis+cluster://[user:password@]host[:port],…                  a Redis Cluster
 *
 * With rediss in place of redis the connections use TLS, also those to Sentinels.
 */

const SERVER_PORT = 6379;
const SENTINEL_PORT = 26_379;

/** Host and port of a server; the host is a name or an address without brackets. */
export interface RedisHost {
  host: string;
  port: number;
}

interface Credentials {
  username?: string;
  password?: string;
}

/** Target of an address. The hosts are those of the address: of Sentinels, or of some nodes of a cluster. */
export type RedisTarget =
  | { kind: 'server'; hosts: readonly RedisHost[]; isTls: boolean; url: string }
  | {
      kind: 'sentinel';
      hosts: readonly RedisHost[];
      isTls: boolean;
      /** Name of the primary at the Sentinels. */
      name: string;
      db: number;
      credentials: Credentials;
      sentinelCredentials: Credentials;
    }
  | { kind: 'cluster'; hosts: readonly RedisHost[]; isTls: boolean; credentials: Credentials };

const URL_PATTERN =
  /^(?<scheme>rediss?)\+(?<kind>sentinel|cluster):\/\/(?:(?<auth>[^@/?#]*)@)?(?<hosts>[^@/?#]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/;
const SHAPES =
  'write redis://host:port, redis+sentinel://host,host,host/name or redis+cluster://host,host,host';
const SENTINEL_QUERY = ['sentinelUsername', 'sentinelPassword'];

/**
 * Parses an address.
 *
 * @throws Error that says what is wrong, without the address: it may hold a password
 */
export function parseRedisUrl(url: string): RedisTarget {
  if (/^rediss?:\/\//.test(url)) return parseServer(url);
  const { scheme, kind, auth, hosts, path = '', query } = URL_PATTERN.exec(url)?.groups ?? {};
  if (kind === undefined || hosts === undefined) throw new Error(SHAPES);
  const isSentinel = kind === 'sentinel';
  const common = {
    hosts: hosts
      .split(',')
      .map((text) => parseHost(text, isSentinel ? SENTINEL_PORT : SERVER_PORT)),
    isTls: scheme === 'rediss',
    credentials: parseCredentials(auth),
  };
  const parameters = parseQuery(query, isSentinel ? SENTINEL_QUERY : []);
  if (isSentinel) return { kind, ...common, ...parseName(path), ...parseSentinel(parameters) };
  if (path !== '' && path !== '/') throw new Error('a cluster has one database: write no path');
  return { kind: 'cluster', ...common };
}

/** Describes where an address leads, without its password: the same text for the same hosts in any order. */
export function describeRedisUrl(url: string): string {
  const target = parseRedisUrl(url);
  const hosts = target.hosts.map(formatHost).sort().join(',');
  if (target.kind === 'server') return hosts;
  return target.kind === 'cluster' ? `the cluster ${hosts}` : `${target.name} of ${hosts}`;
}

/** One server: the library reads the address itself, with its own parameters. */
function parseServer(url: string): RedisTarget {
  if (!URL.canParse(url)) throw new Error(SHAPES);
  const { hostname, port, protocol } = new URL(url);
  if (hostname.includes(',')) {
    throw new Error(
      'several hosts are Sentinels or a cluster: write redis+sentinel://… or redis+cluster://…',
    );
  }
  const host = hostname.replace(/^\[|\]$/g, '') || 'localhost';
  const hosts = [{ host, port: Number(port) || SERVER_PORT }];
  return { kind: 'server', hosts, isTls: protocol === 'rediss:', url };
}

function parseName(path: string): { name: string; db: number } {
  const [, name = '', db = '0'] = path.split('/');
  if (name === '') throw new Error('name the primary: redis+sentinel://host,host,host/name');
  if (!/^\d+$/.test(db)) throw new Error('the database after the name of the primary is a number');
  return { name: decode(name), db: Number(db) };
}

function parseSentinel(parameters: URLSearchParams): { sentinelCredentials: Credentials } {
  const [username, password] = SENTINEL_QUERY.map((name) => parameters.get(name) ?? undefined);
  return { sentinelCredentials: toCredentials(username, password) };
}

function parseHost(text: string, defaultPort: number): RedisHost {
  const { bracketed, name, port } =
    /^(?:\[(?<bracketed>[\da-fA-F:.]+)\]|(?<name>[^\s:[\]]+))(?::(?<port>\d{1,5}))?$/.exec(text)
      ?.groups ?? {};
  const host = bracketed ?? name;
  const number = port === undefined ? defaultPort : Number(port);
  if (host === undefined || number < 1 || number > 65_535)
    throw new Error('a host is missing, or a port is not a number from 1 to 65535');
  return { host, port: number };
}

function formatHost({ host, port }: RedisHost): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function parseCredentials(auth: string | undefined): Credentials {
  if (auth === undefined) return {};
  const colon = auth.indexOf(':');
  if (colon < 0) throw new Error('write user:password@, or :password@, before the hosts');
  return toCredentials(decode(auth.slice(0, colon)), decode(auth.slice(colon + 1)));
}

function toCredentials(username: string | undefined, password: string | undefined): Credentials {
  return { ...(username && { username }), ...(password && { password }) };
}

function parseQuery(query: string | undefined, known: readonly string[]): URLSearchParams {
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (known.includes(name)) continue;
    throw new Error(
      known.length === 0
        ? 'a cluster takes no parameters'
        : `the parameters are ${known.join(' and ')}`,
    );
  }
  return parameters;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error('a % in the user, password or name is written as %25');
  }
}
