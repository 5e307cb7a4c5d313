import { z } from 'zod';
import { addSimulatedBrowser, type BrowserPushService } from '../web-push/simulated-browser.ts';
import { HttpError, type Route, readJson } from './route.ts';

const subscriptionRequestSchema = z.strictObject({
  /** The only VAPID key that may push to it, base64url; absent means any key. */
  applicationServerKey: z.string().max(200).optional(),
});

/** Creates the routes that add and remove simulated browsers. */
export function createWebPushRoutes(pushService: BrowserPushService): Route[] {
  return [
    {
      method: 'POST',
      path: /^\/web-push\/subscriptions$/,
      handle: async ({ request }) => {
        const { applicationServerKey } = await readJson(request, subscriptionRequestSchema);
        return addSimulatedBrowser(pushService, applicationServerKey?.replaceAll('=', ''));
      },
    },
    {
      method: 'DELETE',
      path: /^\/web-push\/subscriptions\/(?<id>[\w-]+)$/,
      handle: ({ params: { id = '' } }) => {
        if (!pushService.subscriptions.unsubscribe(id))
          throw new HttpError(404, `There is no subscription ${id}.`);
        return {};
      },
    },
  ];
}
