import { createHash, X509Certificate } from 'node:crypto';
import puppeteer, { type Browser } from 'puppeteer-core';
import { ensureBrowser } from './ensure-browser.ts';
import type { GooglePushServer } from './google.ts';

/**
 * Opens a Chromium without a window, with a simulated push service.
 *
 * @param certificate of that service, PEM
 */
export async function openChromium(
  google: GooglePushServer,
  certificate: string,
): Promise<Browser> {
  return puppeteer.launch({
    browser: 'chrome',
    executablePath: await ensureBrowser('chromium'),
    headless: true,
    // Its connection for pushes is of the background.
    ignoreDefaultArgs: ['--disable-background-networking'],
    args: [
      '--no-sandbox',
      `--gcm-checkin-url=${google.checkin}`,
      `--gcm-registration-url=${google.registration}`,
      `--gcm-mcs-endpoint=${google.connection}`,
      `--ignore-certificate-errors-spki-list=${keyDigest(certificate)}`,
      // No request leaves the machine.
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    ],
  });
}

function keyDigest(certificate: string): string {
  const key = new X509Certificate(certificate).publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(key).digest('base64');
}
