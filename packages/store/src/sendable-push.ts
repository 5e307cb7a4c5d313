import type { PushDocument } from './documents.ts';

/** The fields of a push that a worker reads right before it sends something, as a projection. */
export const SENDABLE_PUSH_FIELDS = {
  app: 1,
  state: 1,
  ending: 1,
  acceptedAt: 1,
  dueAt: 1,
  expiresAt: 1,
  sendUntil: 1,
  data: 1,
  options: 1,
  channel: 1,
  collapse: 1,
  trace: 1,
} as const;

/** A push as a worker reads it right before it sends something. */
export type SendablePush = Pick<PushDocument, '_id' | keyof typeof SENDABLE_PUSH_FIELDS>;
