import { invalidParameter } from '@carillon/core/validate';
import { FIRST_RECIPIENT, type RecipientCursor } from '@carillon/store/recipients';

/** A batch's id after that of its push, and a position. */
const CURSOR = /^(-[0-9a-z]?\d{6,14})?\.(\d{1,5})$/;

/** Formats the position of a page as an opaque text. */
export function formatCursor({ batch, position }: RecipientCursor): string {
  return Buffer.from(`${batch}.${position}`).toString('base64url');
}

/** Parses the parameter `page`; absent: the first page. @throws ApiError INVALID_PARAM */
export function parseCursor(page: string | undefined): RecipientCursor {
  if (page === undefined) return FIRST_RECIPIENT;
  const [, batch = '', position] = CURSOR.exec(Buffer.from(page, 'base64url').toString()) ?? [];
  if (position !== undefined) return { batch, position: Number(position) };
  throw invalidParameter('page', 'must be the next_page of an earlier response');
}
