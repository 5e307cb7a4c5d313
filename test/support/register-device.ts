import type { Dev } from './stack/dev-file.ts';

/** Data of its registration that a device stores. */
export interface Credentials {
  token: string;
  auth: string;
}

/**
 * Registers a device as an SDK does: `POST /register`, without an API key.
 *
 * @throws when it is refused.
 */
export async function registerDevice(
  dev: Pick<Dev, 'api' | 'app'>,
  platform = 'electron',
): Promise<Credentials> {
  const response = await fetch(new URL('/register', dev.api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ appId: dev.app, platform, sdk: 10000 }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`register: ${response.status} ${text}`);
  const { token, auth } = JSON.parse(text) as Credentials;
  return { token, auth };
}
