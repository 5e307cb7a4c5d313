import { z } from 'zod';
import {
  deviceAuthRequest,
  deviceTokenRequest,
  publicKeyBody,
  publicKeyQuery,
  registeredBody,
  registerRequest,
} from '../registration/schema.ts';
import { subscribeOwnRequest, unsubscribeOwnRequest } from '../topics/schema.ts';
import type { Operation } from './operation.ts';

const DEVICE = {
  token: 'a6345d0278adc55d3474f5',
  auth: '01c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9',
};
const DONE = {
  schema: z.looseObject({ success: z.literal(true) }),
  example: { success: true },
};

/** What devices call; SDKs do this by themselves. */
export const DEVICE_OPERATIONS: readonly Operation[] = [
  {
    id: 'register',
    tag: 'Registration',
    method: 'post',
    path: '/register',
    summary: 'Register a device',
    description:
      'A new device of an app. It connects over MQTT with `token` as client id and user name, and `auth` as password. A provider address (APNs, FCM, Web Push) belongs to one device of the app: whoever registers it again replaces the device before.',
    calledBy: 'device',
    request: {
      schema: registerRequest,
      example: { appId: '5f0c1e2d3b4a59687706f5e4', platform: 'electron', sdk: 1012 },
    },
    response: { schema: registeredBody, example: DEVICE },
    errors: ['INVALID_APP_ID', 'REGISTRATION_CLOSED', 'RATE_LIMIT_EXCEEDED'],
  },
  {
    id: 'webPushPublicKey',
    tag: 'Registration',
    method: 'get',
    path: '/web-push/public-key',
    summary: 'Get the public key that a page subscribes with',
    description:
      'The `applicationServerKey` for `PushManager.subscribe()`. Name the app by `appId`, or by `app`, the host name of the page.',
    calledBy: 'device',
    parameters: [
      {
        name: 'appId',
        in: 'query',
        required: false,
        schema: publicKeyQuery.shape.appId,
        description: "The app's id.",
        example: '5f0c1e2d3b4a59687706f5e4',
      },
      {
        name: 'app',
        in: 'query',
        required: false,
        schema: publicKeyQuery.shape.app,
        description: "The page's host name, in place of `appId`.",
        example: 'www.example.com',
      },
    ],
    response: {
      schema: publicKeyBody,
      example: {
        publicKey:
          'BNbN3OiHTuBaJEJKHtAuh5ZHCQZ5Vgqm1BsxnRFwgLG3iD4UGqRkqN1lk1qkcCBpEdQYDXsF8Xs8tSkUPkHTCvc',
      },
    },
    errors: ['INVALID_APP_ID', 'NO_WEB_PUSH_AUTH'],
  },
  {
    id: 'checkDevice',
    tag: 'Registration',
    method: 'post',
    path: '/devices/auth',
    summary: 'Check the credentials of a device',
    description: 'Never limited. Whether `token` and `auth` belong together.',
    calledBy: 'device',
    request: { schema: deviceAuthRequest, example: { ...DEVICE, sdk: 1012 } },
    response: DONE,
    errors: ['INVALID_DEVICE_AUTH'],
  },
  {
    id: 'setPushToken',
    tag: 'Registration',
    method: 'post',
    path: '/devices/token',
    summary: 'Change the push token of an iOS device',
    description: 'Null takes it away.',
    calledBy: 'device',
    request: {
      schema: deviceTokenRequest,
      example: {
        ...DEVICE,
        pushToken: '8d2a41f6b05ce7938d2a41f6b05ce7938d2a41f6b05ce7938d2a41f6b05ce793',
        pushEnvironment: 'production',
        pushBundle: 'com.example.app',
      },
    },
    response: DONE,
    errors: ['INVALID_DEVICE_AUTH'],
  },
  {
    id: 'subscribeOwn',
    tag: 'Registration',
    method: 'post',
    path: '/devices/subscribe',
    summary: 'Subscribe to topics as a device',
    description: 'With `token` and `auth`, or for any device of the app with an API key.',
    calledBy: 'either',
    request: { schema: subscribeOwnRequest, example: { ...DEVICE, topics: ['news'] } },
    response: DONE,
    errors: ['INVALID_DEVICE_AUTH', 'INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'unsubscribeOwn',
    tag: 'Registration',
    method: 'post',
    path: '/devices/unsubscribe',
    summary: 'Unsubscribe from topics as a device',
    description: 'With `token` and `auth`, or for any device of the app with an API key.',
    calledBy: 'either',
    request: { schema: unsubscribeOwnRequest, example: { ...DEVICE, topics: ['*'] } },
    response: DONE,
    errors: ['INVALID_DEVICE_AUTH', 'INVALID_DEVICE_TOKEN'],
  },
];
