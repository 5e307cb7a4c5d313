import { isIP } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/** Push services of the browser vendors: a host, or `.domain` for every host under it. */
const PUSH_SERVICES = [
  'fcm.googleapis.com',
  'jmt17.google.com',
  '.push.services.mozilla.com',
  '.notify.windows.com',
  '.push.apple.com',
];

/** Maximum length of an endpoint. */
const MAX_CHARACTERS = 2_048;

/** Entry that allows each endpoint at a public address. */
const ANY = '*';
/** Name with a dot inside. Others are of the operator's network. */
const DOTTED_NAME = /[^.]\.[^.]/;

/** Web Push services that the operator allows besides those of the browser vendors. */
export interface AllowedPushHosts {
  listed: readonly AllowedPushHost[];
  /** Every other host at a public address is allowed too, on any port. */
  any: boolean;
}

/** A Web Push service that the operator has listed. */
export interface AllowedPushHost {
  /** Host as in endpoint URLs, with the port unless 443. */
  host: string;
  /** `host:port` to connect to instead, for instance a proxy in the operator's network. */
  connectTo?: string;
}

/**
 * Parses an operator's entries: `host` or `host:port`, optionally followed by `=host:port` to connect to instead, or `*` for any
 * host at a public address.
 *
 * @throws Error naming an entry that is no host
 */
export function parsePushHosts(entries: readonly string[]): AllowedPushHosts {
  const texts = entries.map((entry) => entry.trim());
  const listed = texts.filter((text) => text !== ANY).map(parseEntry);
  return { listed, any: texts.includes(ANY) };
}

function parseEntry(entry: string): AllowedPushHost {
  const [name = '', connectTo] = entry.split('=', 2);
  const url = URL.parse(`https://${name}`);
  const isHost = url !== null && !name.includes(ANY);
  if (!isHost || (connectTo !== undefined && !URL.canParse(`https://${connectTo}`)))
    throw new Error(`${entry} is no host`);
  // Normalized as in URLs: lower case, without port 443.
  return connectTo === undefined ? { host: url.host } : { host: url.host, connectTo };
}

/**
 * Parses a Web Push endpoint; undefined if pushes must not be sent to it. The endpoint comes from the device, so all
 * checks run on the parsed URL: https, no user information, and a host that is allowed. Numeric addresses are checked in every
 * notation, because the URL parser normalizes 0x7f.1 and 2130706433. A name that only `*` allows must be resolved by a guarded
 * lookup.
 *
 * @param allowed further services, for instance one in the operator's network
 */
export function parsePushEndpoint(text: string, allowed: AllowedPushHosts): URL | undefined {
  const url = text.length > MAX_CHARACTERS ? null : URL.parse(text);
  if (url === null || url.protocol !== 'https:') return undefined;
  if (url.username !== '' || url.password !== '') return undefined;
  return isKnownService(url, allowed) || (allowed.any && mayBePublic(url)) ? url : undefined;
}

/**
 * Checks whether an endpoint is of a push service of a browser vendor, on port 443, or of a listed one. Any other may be a
 * server of the device's owner.
 */
export function isKnownService(
  { host, hostname, port }: URL,
  { listed }: Pick<AllowedPushHosts, 'listed'>,
): boolean {
  if (listed.some((one) => one.host === host)) return true;
  return port === '' && PUSH_SERVICES.some((service) => matchesService(service, hostname));
}

/** Returns the host of a URL without the brackets around an IPv6 address; Node takes it without them. */
export function bareHostname({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

function mayBePublic(url: URL): boolean {
  const host = bareHostname(url);
  return isIP(host) === 0 ? DOTTED_NAME.test(host) : isPublicAddress(host);
}

function matchesService(service: string, host: string): boolean {
  return service.startsWith('.') ? host.endsWith(service) : host === service;
}
