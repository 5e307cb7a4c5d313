/** The push services of the browsers: hosts as they are, or `.domain` for every host under it. */
const PUSH_SERVICES = [
  'fcm.googleapis.com',
  'jmt17.google.com',
  '.push.services.mozilla.com',
  '.notify.windows.com',
  '.push.apple.com',
];

const MAX_CHARACTERS = 2_048;

/** A Web Push service that an operator names besides the browsers' own. */
export interface NamedPushHost {
  /** As it is in endpoints: the host, and its port unless 443. */
  host: string;
  /** `host:port` where it is reached instead: a proxy of the own network. */
  at?: string;
}

/** Reads an operator's entry: `host`, `host:port`, or either with `=host:port`, where it is reached instead. */
export function readPushHost(entry: string): NamedPushHost {
  const [name = '', at] = entry.trim().split('=', 2);
  // As URLs write it: lower case, without the port 443.
  const host = URL.canParse(`https://${name}`) ? new URL(`https://${name}`).host : name;
  return at === undefined ? { host } : { host, at };
}

/**
 * Reads a Web Push endpoint; undefined: one that we may never send to. It comes from the device, so everything is
 * compared on the parsed URL: https on its own port, no user information, a host that is a browser vendor's push
 * service. No address written as a number can be one, in whatever form: the URL parser makes 0x7f.1 and 2130706433
 * alike.
 *
 * @param more further services, for instance one in the own network
 */
export function readPushEndpoint(
  text: string,
  more: readonly NamedPushHost[] = [],
): URL | undefined {
  const url = text.length > MAX_CHARACTERS ? null : URL.parse(text);
  return url !== null && isAllowed(url, more) ? url : undefined;
}

function isAllowed(url: URL, more: readonly NamedPushHost[]): boolean {
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') return false;
  if (more.some(({ host }) => host === url.host)) return true;
  return url.port === '' && PUSH_SERVICES.some((service) => isHostOf(service, url.hostname));
}

function isHostOf(service: string, host: string): boolean {
  return service.startsWith('.') ? host.endsWith(service) : host === service;
}
