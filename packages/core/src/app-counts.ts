/*
 * Counts the events of each app for the console's figures. A process keeps only the apps with events since the counts
 * were last taken, and a limited number of them: an installation may have tens of thousands.
 */

/** Maximum apps that a process counts each, between two takes and in one minute. */
export const MAX_COUNTED_APPS = 1_000;
/** Name under which the events of all further apps, and those of an unknown app, add up. */
export const OTHER_APPS = 'other';

/** Kinds of events: pushes that were accepted, and recipients that have ended in one of three ways. */
export const APP_EVENTS = ['accepted', 'delivered', 'sent', 'failed'] as const;
/** Events of one app by kind; kinds without one may be absent. */
export type AppCounts = Partial<Record<(typeof APP_EVENTS)[number], number>>;

let counts = new Map<string, AppCounts>();

/** Adds events of an app to counts that hold at most a thousand apps; those of further ones go to {@link OTHER_APPS}. */
export function addAppCounts(
  to: Map<string, AppCounts>,
  app: string | undefined,
  events: AppCounts,
): void {
  const name = app !== undefined && (to.has(app) || to.size < MAX_COUNTED_APPS) ? app : OTHER_APPS;
  let ofApp = to.get(name);
  if (ofApp === undefined) {
    ofApp = {};
    to.set(name, ofApp);
  }
  for (const event of APP_EVENTS) {
    const count = events[event] ?? 0;
    if (count > 0) ofApp[event] = (ofApp[event] ?? 0) + count;
  }
}

/** Counts events of an app. @param app undefined if it is not known */
export function countForApp(app: string | undefined, events: AppCounts): void {
  if (APP_EVENTS.some((event) => (events[event] ?? 0) > 0)) addAppCounts(counts, app, events);
}

/** Returns the events since the last call by app, and begins anew. */
export function takeAppCounts(): Map<string, AppCounts> {
  const taken = counts;
  counts = new Map();
  return taken;
}
