import { isIP } from 'node:net';

/**
 * Checks that a request's host is an IP address, localhost or one of the allowed names. Otherwise a web page whose
 * domain is pointed at an operator's machine (DNS rebinding) could read the responses.
 */
export function isAllowedHost(host: string, names: ReadonlySet<string>): boolean {
  const name =
    /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host)?.[1]?.toLowerCase().replace(/\.$/, '') ?? '';
  const address = name.startsWith('[') ? name.slice(1, -1) : name;
  return isIP(address) !== 0 || name === 'localhost' || names.has(name);
}
