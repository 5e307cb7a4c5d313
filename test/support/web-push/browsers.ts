import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import puppeteer, { type Browser } from 'puppeteer-core';

const execFileAsync = promisify(execFile);

/** Opens a Chromium without a window, which finds no host but this machine. */
export async function openChromium(
  args: readonly string[] = [],
  ignoreDefaultArgs: string[] = [],
): Promise<Browser> {
  const hosts = 'MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1';
  return puppeteer.launch({
    browser: 'chrome',
    executablePath: await ensureBrowser('chromium'),
    headless: true,
    ignoreDefaultArgs,
    args: ['--no-sandbox', `--host-resolver-rules=${hosts}`, ...args],
  });
}

/** Opens a Chromium that connects to its push service, which is an activity of the background. */
export const openChromiumWithPush = (args: readonly string[] = []): Promise<Browser> =>
  openChromium(args, ['--disable-background-networking']);

/** Opens a Firefox without a window whose push service is the sandbox at this address. */
export async function openFirefox(sandbox: string): Promise<Browser> {
  return puppeteer.launch({
    browser: 'firefox',
    executablePath: await ensureBrowser('firefox-esr'),
    headless: true,
    extraPrefsFirefox: {
      'dom.push.enabled': true,
      'dom.push.connection.enabled': true,
      'dom.push.serverURL': `${sandbox.replace('http', 'ws')}/`,
      'dom.push.testing.allowInsecureServerURL': true,
      'dom.push.retryBaseInterval': 500,
      // Without a desktop the system shows nothing, and showNotification would fail.
      'alerts.useSystemBackend': false,
      // No request leaves the machine.
      'network.proxy.type': 1,
      'network.proxy.http': '127.0.0.1',
      'network.proxy.http_port': 9,
      'network.proxy.ssl': '127.0.0.1',
      'network.proxy.ssl_port': 9,
      'network.proxy.no_proxies_on': 'localhost, 127.0.0.1',
      'network.proxy.allow_hijacking_localhost': false,
    },
  });
}

/** Returns the path of a browser; as root on Debian it installs a missing one. @throws if it can't */
async function ensureBrowser(name: 'firefox-esr' | 'chromium'): Promise<string> {
  const path = `/usr/bin/${name}`;
  if (existsSync(path)) return path;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await execFileAsync('apt-get', ['update'], { env });
  await execFileAsync('apt-get', ['install', '-y', '--no-install-recommends', name], { env });
  return path;
}
