import { DEVICE_TOKEN } from '@carillon/core/limits';
import { z } from 'zod';

const MAX_PAGE = 100;
const DEFAULT_PAGE = 50;

/** The id of an app, a push or a re-drive. */
export const objectId = z.string().regex(/^[0-9a-f]{24}$/);
export const deviceToken = z.string().regex(DEVICE_TOKEN);

/** A time in a query: milliseconds since 1970. */
const time = z.coerce
  .number()
  .int()
  .min(0)
  .max(8_640_000_000_000_000)
  .transform((ms) => new Date(ms));

/** Fields of the query of every list. */
export const page = {
  cursor: z.string().min(1).max(200).optional(),
  limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(DEFAULT_PAGE),
};

/** An interval of time in the query of a list. */
export const interval = { from: time.optional(), to: time.optional() };
