// Routes: the login page stands alone, every other page is inside the shell.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet } from '@tanstack/react-router'
import { Shell } from '../shell/Shell'
import { Missing } from '../ui/Missing'
import { Guard } from './Guard'
import { PAGES } from './pages'

const root = createRootRoute({ component: Outlet, notFoundComponent: Missing })
const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  component: lazyRouteComponent(() => import('../login/Login'), 'Login'),
})
const shell = createRoute({ getParentRoute: () => root, id: 'shell', component: Shell })
const pages = PAGES.map((page) =>
  createRoute({
    getParentRoute: () => shell,
    path: page.path,
    component: lazyRouteComponent(async () => {
      const Content = await page.load()
      return {
        default: () => (
          <Guard needs={page.needs}>
            <Content />
          </Guard>
        ),
      }
    }),
  }),
)

export const router = createRouter({
  routeTree: root.addChildren([login, shell.addChildren(pages)]),
  defaultPreload: 'intent',
  defaultNotFoundComponent: Missing,
})
