import { createECDH, randomBytes } from 'node:crypto';
import type { Credentials } from '../register-device.ts';
import type { Dev } from '../stack/dev-file.ts';

/**
 * Registers a browser with a subscription of its own, as the web SDK does.
 *
 * @throws when it is refused.
 */
export async function registerBrowser(dev: Pick<Dev, 'api' | 'app'>): Promise<Credentials> {
  const subscription = {
    endpoint: `https://updates.push.services.mozilla.com/wpush/v2/${randomBytes(24).toString('hex')}`,
    key: createECDH('prime256v1').generateKeys('base64url'),
    auth: randomBytes(16).toString('base64url'),
  };
  const response = await fetch(new URL('/register', dev.api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ appId: dev.app, platform: 'web', sdk: 10_000, subscription }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`register: ${response.status} ${text}`);
  const { token, auth } = JSON.parse(text) as Credentials;
  return { token, auth };
}
