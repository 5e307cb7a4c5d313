import type { HTTPResponse, Page } from 'puppeteer-core';

export type PageWatch = ReturnType<typeof watchPage>;

/**
 * Watches a page for errors in its console, requests to other hosts, documents and scripts without the
 * Content-Security-Policy, and error responses.
 *
 * @param allowed statuses of error responses that the test provokes
 */
export function watchPage(page: Page, origin: string | undefined, allowed: readonly number[] = []) {
  let faults: string[] = [];
  page.on('console', (message) => {
    const isFault = message.type() === 'error' || message.type() === 'warn';
    // Each has its response or its failed request.
    const isOfRequest = message.text().startsWith('Failed to load resource');
    if (isFault && !isOfRequest) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${String(error)}`));
  page.on('request', (request) => {
    if (!isOwn(request) && new URL(request.url()).origin !== origin)
      faults.push(`request to ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400 && !allowed.includes(response.status())) {
      faults.push(`${response.status()} of ${response.url()}`);
    }
    if (!isOwn(response) && !hasPolicy(response))
      faults.push(`no Content-Security-Policy at ${response.url()}`);
  });
  return {
    /** Returns the faults since the last call. */
    take(): string[] {
      const taken = faults;
      faults = [];
      return taken;
    },
  };
}

/** The browser's own icons, such as that of a date field, go nowhere. */
function isOwn(request: { url(): string }): boolean {
  return request.url().startsWith('data:');
}

function hasPolicy(response: HTTPResponse): boolean {
  return response.headers()['content-security-policy']?.includes("default-src 'self'") ?? false;
}
