import {
  Anchor,
  type AnchorProps,
  Button,
  type ButtonProps,
  NavLink,
  type NavLinkProps,
} from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { ComponentPropsWithRef } from 'react';

type AnchorElementProps<Own> = Own & Omit<ComponentPropsWithRef<'a'>, keyof Own>;

/** Link within a text or a table. */
export const TextLink = createLink((props: AnchorElementProps<AnchorProps>) => (
  <Anchor {...props} />
));

/** Link that looks like a button. */
export const ButtonLink = createLink((props: AnchorElementProps<ButtonProps>) => (
  <Button component="a" {...props} />
));

/** Link of the navigation. */
export const NavigationLink = createLink((props: AnchorElementProps<NavLinkProps>) => (
  <NavLink component="a" {...props} />
));
