import { readStored, writeStored } from './stored.ts';

/** Returns the token of an operator's test device of an app, which this browser keeps; undefined without one. */
export function readTestDevice(operator: string, app: string): string | undefined {
  return readStored(nameOf(operator, app)) || undefined;
}

/**
 * Keeps the token of an operator's test device of an app in this browser.
 *
 * @param token undefined to forget it
 * @returns false if the browser's storage is blocked or full
 */
export function writeTestDevice(operator: string, app: string, token: string | undefined): boolean {
  writeStored(nameOf(operator, app), token ?? '');
  return readTestDevice(operator, app) === token;
}

function nameOf(operator: string, app: string): string {
  return `test-device:${operator}:${app}`;
}
