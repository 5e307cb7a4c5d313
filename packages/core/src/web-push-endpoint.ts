/** The push services of the browsers: hosts as they are, or `.domain` for every host under it. */
const PUSH_SERVICES = [
  'fcm.googleapis.com',
  'jmt17.google.com',
  '.push.services.mozilla.com',
  '.notify.windows.com',
  '.push.apple.com',
];

const MAX_CHARACTERS = 2_048;

/**
 * Whether we may ever send to a Web Push endpoint. It comes from the device, so everything is compared on the
 * parsed URL: https on its own port, no user information, a host that is a browser vendor's push service.
 *
 * @param more further hosts with their ports, for instance of a push service in the own network
 */
export function isPushEndpoint(text: string, more: readonly string[] = []): boolean {
  if (text.length > MAX_CHARACTERS || !URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') return false;
  if (more.includes(url.host)) return true;
  return url.port === '' && PUSH_SERVICES.some((service) => isHostOf(service, url.hostname));
}

function isHostOf(service: string, host: string): boolean {
  return service.startsWith('.') ? host.endsWith(service) : host === service;
}
