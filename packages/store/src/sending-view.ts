import type { PushDocument } from './documents.ts';

/** What must be known of a push right before something is sent. */
export type SendingView = Pick<
  PushDocument,
  | '_id'
  | 'app'
  | 'state'
  | 'acceptedAt'
  | 'dueAt'
  | 'expiresAt'
  | 'sendUntil'
  | 'data'
  | 'options'
  | 'collapse'
>;

/** The fields of a {@link SendingView}, as a projection. */
export const SENDING_VIEW = {
  app: 1,
  state: 1,
  acceptedAt: 1,
  dueAt: 1,
  expiresAt: 1,
  sendUntil: 1,
  data: 1,
  options: 1,
  collapse: 1,
} as const;
