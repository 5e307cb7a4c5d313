import puppeteer, { type Browser } from 'puppeteer-core';
import { ensureBrowser } from './ensure-browser.ts';

/**
 * Opens a Firefox without a window whose push service is the sandbox.
 *
 * @param sandbox base address of the sandbox
 */
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
