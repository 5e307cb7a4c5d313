import { isAllowedHost } from '@carillon/runtime/allowed-host';

/** Addresses of the console: its own hosts and origins, and the names of its cookies. */
export type ConsoleAddress = ReturnType<typeof createConsoleAddress>;

/** @param consoleUrl the address behind a host name or TLS, if there is one */
export function createConsoleAddress(consoleUrl: string | undefined) {
  const url = consoleUrl === undefined ? undefined : new URL(consoleUrl);
  const isSecure = url?.protocol === 'https:';
  const names = new Set(url === undefined ? [] : [url.hostname.toLowerCase()]);
  return {
    isSecure,
    /** The address in CONSOLE_URL without a slash at its end. */
    url: url?.href.replace(/\/+$/, ''),
    /** Returns true for IP addresses, localhost and the host of CONSOLE_URL: other names could be rebound by DNS. */
    isAllowedHost: (host: string): boolean => isAllowedHost(host, names),
    /**
     * Returns true when a request's Origin is the console itself; `host` has been checked. The host of an https
     * CONSOLE_URL has no origin without TLS, where an attacker on the network path could respond in its place.
     */
    isOwnOrigin(origin: string | undefined, host: string): boolean {
      if (origin === undefined || origin === url?.origin) return origin !== undefined;
      if (isSecure && host.toLowerCase() === url?.host) return false;
      return origin.toLowerCase() === `http://${host.toLowerCase()}`;
    },
    /**
     * Returns the name of a cookie. Cookies are common to all ports of a host, so that the port in the name keeps two
     * consoles apart; a `__Host-` name needs TLS.
     */
    cookieName: (name: string, host: string): string =>
      isSecure
        ? `__Host-carillon-${name}`
        : `carillon-${name}-${/:(\d+)$/.exec(host)?.[1] ?? '80'}`,
  };
}

/** Returns the cookies of a request; of several with one name the first. */
export function parseCookies(header: string | undefined): ReadonlyMap<string, string> {
  const cookies = new Map<string, string>();
  for (const pair of header?.split(';') ?? []) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, at).trim();
    if (at > 0 && !cookies.has(name)) cookies.set(name, pair.slice(at + 1).trim());
  }
  return cookies;
}

/** Formats a cookie that scripts can't read. @param maxAgeSeconds 0 removes it */
export function formatCookie(
  name: string,
  value: string,
  { maxAgeSeconds, isSecure }: { maxAgeSeconds: number; isSecure: boolean },
): string {
  // Lax, because the callback of single sign-on comes from another site.
  const attributes = `Path=/; HttpOnly; SameSite=Lax; Max-Age=${maxAgeSeconds}`;
  return `${name}=${value}; ${attributes}${isSecure ? '; Secure' : ''}`;
}
