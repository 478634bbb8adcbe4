@echo off
rem Installs lindley $version from this folder. It needs no network and no administrator rights.
rem   install.cmd                      installs into a folder of its own below your home folder
rem   install.cmd --folder D:\lindley  installs there
rem   install.cmd --check              only looks whether it would go well
rem To use a certain Python, say so first:  set "PYTHON=C:\Python\python.exe"
setlocal
set "WANTED=import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$python'.split('.'))))"
if defined PYTHON goto given
py -$python -c "%WANTED%" >nul 2>nul
if not errorlevel 1 goto launcher
python -c "%WANTED%" >nul 2>nul
if not errorlevel 1 goto path
echo.
echo lindley is not installed: there is no Python $python on this computer.
echo This bundle is for Python $python (64 bit), and for no other version.
echo What to do: install Python $python from the file of python.org (choose "Install for me only": it needs no
echo administrator rights), or ask for a bundle for the Python that you have. Then start install.cmd again.
set RESULT=1
goto end

:given
"%PYTHON%" -c "%WANTED%" >nul 2>nul
if errorlevel 1 goto wrong
"%PYTHON%" -E -s "%~dp0install.py" %*
set RESULT=%ERRORLEVEL%
goto end

:launcher
py -$python -E -s "%~dp0install.py" %*
set RESULT=%ERRORLEVEL%
goto end

:path
python -E -s "%~dp0install.py" %*
set RESULT=%ERRORLEVEL%
goto end

:wrong
echo.
echo lindley is not installed: the variable PYTHON does not name a Python $python.
echo What to do: set it to the full name of python.exe of Python $python, or leave it away:  set PYTHON=
set RESULT=1

:end
echo.
if "%~1"=="" pause
exit /b %RESULT%
