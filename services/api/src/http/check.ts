import { ApiError } from '@carillon/core/api-error';
import { z } from 'zod';

/** A token or topic in a list may be anything; what isn't ours is told apart when it is looked up. */
export const strings = z
  .custom<string[]>(
    // A bare loop: checking 100,000 items one schema each takes 20 times as long.
    (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
    'must be an array of strings',
  )
  .meta({ override: { type: 'array', items: { type: 'string' } } });

/**
 * Reads a request's fields; unknown ones are ignored.
 *
 * @throws ApiError INVALID_PARAM, which names the first fault
 */
export function check<S extends z.ZodType>(schema: S, value: unknown): z.infer<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const name = issue?.path.join('.') ?? '';
  throw new ApiError(
    'INVALID_PARAM',
    `The parameter "${name}" is missing or invalid: ${issue?.message ?? 'unknown'}.`,
  );
}
