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

/** A Web Push service that the operator allows besides those of the browser vendors. */
export interface AllowedPushHost {
  /** Host as in endpoint URLs, with the port unless 443. */
  host: string;
  /** `host:port` to connect to instead, for instance a proxy in the operator's network. */
  connectTo?: string;
}

/** Parses an operator's entry: `host` or `host:port`, optionally followed by `=host:port` to connect to instead. */
export function parsePushHost(entry: string): AllowedPushHost {
  const [name = '', connectTo] = entry.trim().split('=', 2);
  // Normalized as in URLs: lower case, without port 443.
  const host = URL.canParse(`https://${name}`) ? new URL(`https://${name}`).host : name;
  return connectTo === undefined ? { host } : { host, connectTo };
}

/**
 * Parses a Web Push endpoint; undefined if pushes must not be sent to it. The endpoint comes from the device, so all
 * checks run on the parsed URL: https on port 443, no user information, and a push service of a browser vendor as
 * host. Numeric addresses never match, in any notation, because the URL parser normalizes 0x7f.1 and 2130706433.
 *
 * @param allowedHosts further services, for instance one in the operator's network
 */
export function parsePushEndpoint(
  text: string,
  allowedHosts: readonly AllowedPushHost[] = [],
): URL | undefined {
  const url = text.length > MAX_CHARACTERS ? null : URL.parse(text);
  return url !== null && isAllowed(url, allowedHosts) ? url : undefined;
}

function isAllowed(url: URL, allowedHosts: readonly AllowedPushHost[]): boolean {
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') return false;
  if (allowedHosts.some(({ host }) => host === url.host)) return true;
  return url.port === '' && PUSH_SERVICES.some((service) => matchesService(service, url.hostname));
}

function matchesService(service: string, host: string): boolean {
  return service.startsWith('.') ? host.endsWith(service) : host === service;
}
