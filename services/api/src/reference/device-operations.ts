import { LIMITS } from '@carillon/core/limits';
import { z } from 'zod';
import {
  deviceAuthRequest,
  deviceTokenRequest,
  publicKeyQuery,
  publicKeyResponse,
  registeredResponse,
  registerRequest,
} from '../registration/schema.ts';
import { subscribeAsDeviceRequest, unsubscribeAsDeviceRequest } from '../topics/schema.ts';
import type { Operation } from './operation.ts';

const DEVICE_CREDENTIALS = {
  token: 'a6345d0278adc55d3474f5',
  auth: '01c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9f04b2d68c5a7e9',
};
const SUCCESS_RESPONSE = {
  schema: z.looseObject({ success: z.literal(true) }),
  example: { success: true },
};

const { topicsPerDevice, topicChangesPerDeviceMinute } = LIMITS;
const TOPIC_CHANGE_DESCRIPTION = `Authenticate with the \`token\` and \`auth\` of the device, at most ${topicChangesPerDeviceMinute} times a minute, or with an API key for any device of the app.`;
const TOPIC_LIMIT_DESCRIPTION = `A device can subscribe to at most ${topicsPerDevice.toLocaleString('en')} topics.`;

/** Endpoints that devices call. The SDKs do so automatically. */
export const DEVICE_OPERATIONS: readonly Operation[] = [
  {
    id: 'register',
    tag: 'Registration',
    method: 'post',
    path: '/register',
    summary: 'Register a device',
    description:
      'Creates a device and returns its credentials. To connect over MQTT, the device uses `token` as client ID and user name, and `auth` as password. A provider address (APNs, FCM, Web Push) belongs to one device of the app. An installation that proves to be an earlier device, by `token` and `auth` or by `deviceId`, stays this device. Without a proof, registering the same address replaces the earlier device: the new one gets its topics, the credentials of the earlier one are rejected, and pushes to it still go to the address. An Android device of an app without FCM is deleted instead.',
    calledBy: 'device',
    request: {
      schema: registerRequest,
      example: { appId: '5f0c1e2d3b4a59687706f5e4', platform: 'electron', sdk: 1012 },
    },
    response: { schema: registeredResponse, example: DEVICE_CREDENTIALS },
    errors: ['INVALID_APP_ID', 'REGISTRATION_CLOSED', 'RATE_LIMIT_EXCEEDED'],
  },
  {
    id: 'webPushPublicKey',
    tag: 'Registration',
    method: 'get',
    path: '/web-push/public-key',
    summary: 'Get the Web Push public key',
    description:
      'Returns the `applicationServerKey` for `PushManager.subscribe()`. Identify the app by `appId`, or by `app`, the host name of the page.',
    calledBy: 'device',
    parameters: [
      {
        name: 'appId',
        in: 'query',
        required: false,
        schema: publicKeyQuery.shape.appId,
        description: 'Identifier of the app.',
        example: '5f0c1e2d3b4a59687706f5e4',
      },
      {
        name: 'app',
        in: 'query',
        required: false,
        schema: publicKeyQuery.shape.app,
        description: 'Host name of the page, instead of `appId`.',
        example: 'www.example.com',
      },
    ],
    response: {
      schema: publicKeyResponse,
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
    summary: 'Verify device credentials',
    description:
      'Verifies that `token` and `auth` belong to the same device. This endpoint has no rate limit.',
    calledBy: 'device',
    request: { schema: deviceAuthRequest, example: { ...DEVICE_CREDENTIALS, sdk: 1012 } },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_AUTH'],
  },
  {
    id: 'setPushToken',
    tag: 'Registration',
    method: 'post',
    path: '/devices/token',
    summary: 'Update the push token of a phone',
    description:
      'Updates the APNs device token of an iOS device, or the FCM registration token of an Android or iOS device. Without any of the two, the stored token is removed.',
    calledBy: 'device',
    request: {
      schema: deviceTokenRequest,
      example: {
        ...DEVICE_CREDENTIALS,
        pushToken: '8d2a41f6b05ce7938d2a41f6b05ce7938d2a41f6b05ce7938d2a41f6b05ce793',
        pushEnvironment: 'production',
        pushBundle: 'com.example.app',
      },
    },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_AUTH'],
  },
  {
    id: 'subscribeOwn',
    tag: 'Registration',
    method: 'post',
    path: '/devices/subscribe',
    summary: 'Subscribe to topics as a device',
    description: `Subscribes the device to one or more topics. ${TOPIC_CHANGE_DESCRIPTION} ${TOPIC_LIMIT_DESCRIPTION}`,
    calledBy: 'either',
    request: {
      schema: subscribeAsDeviceRequest,
      example: { ...DEVICE_CREDENTIALS, topics: ['news'] },
    },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_AUTH', 'INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'unsubscribeOwn',
    tag: 'Registration',
    method: 'post',
    path: '/devices/unsubscribe',
    summary: 'Unsubscribe from topics as a device',
    description: `Unsubscribes the device from one or more topics. ${TOPIC_CHANGE_DESCRIPTION}`,
    calledBy: 'either',
    request: {
      schema: unsubscribeAsDeviceRequest,
      example: { ...DEVICE_CREDENTIALS, topics: ['*'] },
    },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_AUTH', 'INVALID_DEVICE_TOKEN'],
  },
];
