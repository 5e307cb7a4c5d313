import type { ConsoleApi } from '../../../src/console.ts';

/** The names of the routes' responses in the pages. Types only: the pages load no code of the server. */

export type { ConsoleApi };

export type Session = ConsoleApi['get /session'];
export type Role = Session['operator']['role'];
/** Purpose of a one-time link that works. */
export type SetupLink = Extract<ConsoleApi['get /setup'], { valid: true }>;
export type Operator = Item<'get /operators'>;
/** A one-time link that nobody has used yet. */
export type OpenLink = Item<'get /operators/links'>;
/** A token with which programs use the admin API. */
export type OperatorToken = Item<'get /operators/tokens'>;
export type AuditEntry = Item<'get /audit'>;

export type Account = Item<'get /accounts'>;
export type App = ConsoleApi['get /apps/:app'];
export type ApiKey = Item<'get /apps/:app/keys'>;
export type Credential = Item<'get /apps/:app/credentials'>;
export type SentTestPush = ConsoleApi['post /apps/:app/credentials/:channel/test'];
export type Webhooks = ConsoleApi['get /apps/:app/webhooks'];
export type Webhook = Webhooks['items'][number];
export type WebhookRequest = Item<'get /apps/:app/webhooks/:id/requests'>;
/** A receiver's response, or the code of the error. */
export type WebhookResponse = NonNullable<Webhook['last']>;

export type Overview = ConsoleApi['get /overview'];
export type OverviewApp = Overview['apps'][number];
/** A fault that delays deliveries. */
export type Problem = Overview['problems'][number];
export type OverviewMinute = Overview['minutes'][number];

/** A push in a list. */
export type PushItem = Item<'get /apps/:app/pushes'>;
export type PushDetails = ConsoleApi['get /pushes/:push'];
export type PushHead = PushDetails['push'];
export type TimelineEvent = PushDetails['timeline'][number];
/** Recipients by outcome; outcomes without recipients are absent. */
export type Counts = PushDetails['counts'];
export type Recipient = ConsoleApi['get /pushes/:push/recipients/:token'];
/** One of the recipients in the list of a push. */
export type ListedRecipient = Item<'get /pushes/:push/recipients'>;
export type AcceptedPush = ConsoleApi['post /apps/:app/pushes'];
export type AudienceCount = ConsoleApi['post /apps/:app/audience'];
export type FailedPush = Item<'get /apps/:app/failures'>;
export type Redrive = ConsoleApi['get /redrives/:redrive'];

export type Device = Item<'get /apps/:app/devices'>;
export type DeviceDetails = ConsoleApi['get /devices/:token'];
export type DevicePush = Item<'get /devices/:token/pushes'>;
export type Topic = Item<'get /apps/:app/topics'>;
export type Subscriber = Item<'get /apps/:app/topics/:topic/subscribers'>;
export type Found = Item<'get /find'>;

/** Item of a list. */
type Item<Route extends keyof ConsoleApi> = ConsoleApi[Route] extends { items: (infer One)[] }
  ? One
  : never;

/** One page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; absent when this page is the last. */
  next?: string;
}

/** Body of every error response. */
export interface ErrorBody {
  code: string;
  error: string;
  requestId?: string;
  /** Of a push. */
  parameter?: string;
}
