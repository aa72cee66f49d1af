import '@mantine/core/styles.css'
import '@mantine/spotlight/styles.css'
import './theme/app.css'
import { MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { firstTexts } from './app/i18n'
import { queries } from './app/queries'
import { router } from './app/router'
import { theme } from './theme/theme'

// The page's policy allows styles with this number alone: Mantine's, and the scroll lock's of
// dialogs and drawers.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? ''
setNonce(nonce)

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no #root')
void firstTexts.then(() =>
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  ),
)
