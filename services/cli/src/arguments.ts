import { InvalidArgumentError } from 'commander';

/** Reads a whole number between two bounds, both included. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };
}

/** Collects an option that may come several times, each time with several values between commas. */
export function collected(text: string, before: readonly string[] = []): string[] {
  const values = text.split(',').filter((value) => value !== '');
  if (values.length === 0) throw new InvalidArgumentError('It must not be empty.');
  return [...before, ...values];
}

/** Checks that a text is a JSON object and gives it back as it is, so that nothing in it changes. */
export function jsonObjectText(text: string): string {
  if (text.trimStart().startsWith('{') && isJson(text)) return text;
  throw new InvalidArgumentError('It must be a JSON object, such as \'{"message":"Hello"}\'.');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
