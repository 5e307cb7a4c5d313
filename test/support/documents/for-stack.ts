import type { Dev } from '../stack/dev-file.ts';

/** Replaces the addresses, the app and the certificate file of a page's code by those of a stack. */
export function forStack(code: string, { api, app, mqtts = '', ca = '' }: Dev): string {
  const { hostname, port } = new URL(mqtts);
  return code
    .replaceAll('mqtts://push.example.com:8883', mqtts)
    .replaceAll('https://push.example.com', api)
    .replaceAll('push.example.com', hostname)
    .replaceAll('8883', port)
    .replaceAll('5f0c1e2d3b4a59687706f5e4', app)
    .replaceAll('ca.pem', ca);
}
