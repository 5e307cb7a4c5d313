import type { PageQuery } from '@carillon/admin/page';
import { z } from 'zod';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const MAX_CURSOR = 200;

/** Id of an account, app, key or operator. */
export const objectId = z.string().regex(/^[0-9a-f]{24}$/, 'An id has 24 hexadecimal digits.');

/** Query of one page of a list. */
export const pageFields = {
  cursor: z.string().max(MAX_CURSOR).optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT),
};

/** Selects the fields of a page query. */
export function toPageQuery({ cursor, limit }: PageQuery): PageQuery {
  return { cursor, limit };
}

/** Unix milliseconds in a query. */
export const queryTime = z.coerce.number().int().min(0).optional();

/** Name of an account or app. */
export const objectName = z.string().trim().min(1, 'Give a name.').max(100);
